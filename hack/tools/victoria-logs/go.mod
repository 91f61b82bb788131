module atherops.local/tools/victoria-logs

go 1.26.4

tool github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs

require github.com/VictoriaMetrics/VictoriaLogs v1.51.1-0.20260624061259-dc94972a8708

// Its own requirement is a commit that module proxies may not have, so a release takes its place.
replace github.com/VictoriaMetrics/VictoriaMetrics => github.com/VictoriaMetrics/VictoriaMetrics v1.146.0
