// Fails every fifth payment on purpose, and asks `receipts` to write a receipt for the others.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
)

var client = http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport)}

func pay(response http.ResponseWriter, request *http.Request) {
	number, _ := strconv.Atoi(request.PathValue("number"))
	if number%5 == 0 {
		fmt.Println("failed")
		http.Error(response, "no money", http.StatusInternalServerError)
		return
	}
	receipt, _ := http.NewRequestWithContext(request.Context(), "GET", os.Getenv("RECEIPTS_URL")+"/receipts", nil)
	if answer, err := client.Do(receipt); err == nil {
		answer.Body.Close()
	}
	fmt.Println("ok")
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	otel.SetTracerProvider(provider)
	reader, err := autoexport.NewMetricReader(ctx)
	if err != nil {
		panic(err)
	}
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	otel.SetMeterProvider(meters)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	routes := http.NewServeMux()
	routes.Handle("GET /payments/{number}", otelhttp.NewHandler(http.HandlerFunc(pay), "GET /payments/{number}"))
	go http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), routes)
	<-ctx.Done()
	provider.Shutdown(context.Background())
	meters.Shutdown(context.Background())
}
