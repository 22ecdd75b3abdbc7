"""Where a lake may be, and what errors of a store say: one line, the request and the reason, and no credentials."""

import pytest

from pleroma.errors import LakeError
from pleroma.pipeline.lake.store import file_system, is_of_store, lake_url, reason_of, storage_options, without_secrets

LOST = """Kernel error -> Generic S3 error
          \x1b[31m↳\x1b[0m Error performing GET http://127.0.0.1:9/lakes/x/_last_checkpoint?versionId=3 in 3.1s, after \
10 retries, max_retries
           \x1b[31m↳\x1b[0m 10, retry_timeout
            \x1b[31m↳\x1b[0m 10s  - HTTP error
             \x1b[31m↳\x1b[0m error sending request
              \x1b[31m↳\x1b[0m Connection refused (os error 111)
"""
DENIED = """Generic S3 error
  \x1b[31m↳\x1b[0m Error performing PUT https://s3.example/lakes/x in 2ms - Server returned non-2xx status code
   \x1b[31m↳\x1b[0m 403 Forbidden
    \x1b[31m↳\x1b[0m <?xml version="1.0"?>
<Error><Code>InvalidAccessKeyId</Code><Message>It does not exist.</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>
"""
SILENT = "Failed to parse parquet: External: Generic S3 error: Error performing PUT http://h/x in 10s - HTTP error: "


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (LOST, "GET http://127.0.0.1:9/lakes/x/_last_checkpoint: Connection refused"),
        (DENIED, "PUT https://s3.example/lakes/x: InvalidAccessKeyId: It does not exist."),
        (f"{SILENT}error sending request", "PUT http://h/x: no answer"),
        (f"{SILENT}builder error: URL scheme is not allowed", "PUT http://h/x: it is not encrypted, which has to be"),
        ("LocalFileSystem error (os error 28)", "No space left on device"),
        ("one line\nand another", "one line"),
        ("", "OSError"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_an_error_is_one_line_with_its_reason(said, reason):
    assert reason_of(OSError(said)).startswith(reason)
    assert len(reason_of(OSError(said)).splitlines()) == 1
    assert len(reason_of(OSError(said))) <= 300


def test_only_a_request_that_found_something_there_fails_because_of_the_store():
    assert is_of_store(OSError(LOST))
    assert not is_of_store(FileNotFoundError(LOST))
    assert not is_of_store(OSError("Couldn't deserialize thrift"))


def test_credentials_of_the_environment_and_of_addresses_are_in_no_text(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "in+the/environment")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2026&sig=also")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "abc")  # that short it is none
    monkeypatch.setenv("PLEROMA_HOME", "/a/harmless/one")
    text = (
        "abc /a/harmless/one in+the/environment sv=2026&sig=also http://ann:secret@h/x?X-Amz-Signature=beef&a=b&token=c"
    )
    assert without_secrets(text) == "abc /a/harmless/one … … http://…@h/x?X-Amz-Signature=…&a=b&token=…"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "hdfs://h/lake",
        "s3://key:secret@bucket/lake",
        "s3://secret@bucket/lake",
        "abfss://container:secret@account/lake",
        "s3://bucket/lake?aws_secret_access_key=secret",
        "s3://bucket/100%25",
        "/data/[1]/lake",
        "/data/a|b",
    ],
)
def test_a_place_where_no_lake_can_be_is_refused_without_its_credentials(given):
    with pytest.raises(LakeError) as refused:
        lake_url(given)
    assert "secret" not in str(refused.value).replace("aws_secret", "")
    assert "secret" not in repr(refused.value.value).replace("aws_secret", "")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("s3://bucket/lake/", "s3://bucket/lake"),
        ("abfss://container@account.example/lake", "abfss://container@account.example/lake"),
        ("file:///data/100% of it", "/data/100% of it"),
        ("/data/ü", "/data/ü"),
    ],
)
def test_a_lake_is_a_folder_or_a_place_in_a_store(given, url):
    assert lake_url(given) == url


def test_only_stores_are_given_up_after_a_time(tmp_path):
    assert storage_options(str(tmp_path)) is None
    assert storage_options("s3://bucket/lake")["retry_timeout"] == "10s"
    assert file_system(str(tmp_path))[1] == f"{tmp_path}/"
