"""Metrics of one process at http://HOST:9464/metrics, where Prometheus asks for them."""

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server


def export_metrics(port: int = 9464) -> None:
    """To be called once, before EmbeddedMetrics, NativeMetrics or SourceMetrics are made."""
    set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    start_http_server(port)
