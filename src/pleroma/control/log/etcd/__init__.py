"""The log of several processes, and who of them holds an office, in etcd."""

from pleroma.control.log.etcd.etcd_address import EtcdAddress
from pleroma.control.log.etcd.etcd_lease import EtcdLease, Office, OfficeHolder
from pleroma.control.log.etcd.etcd_log import EtcdLog

__all__ = ["EtcdAddress", "EtcdLease", "EtcdLog", "Office", "OfficeHolder"]
