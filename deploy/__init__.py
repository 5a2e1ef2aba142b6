"""What runs beside the server: containers, Prometheus, Grafana; nothing here is in the wheel."""
