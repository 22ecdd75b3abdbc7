"""An etcd for the tests that ask for one."""

from support.etcd_fixtures import etcd, etcd_members, url

__all__ = ["etcd", "etcd_members", "url"]
