package main

// A result is what one run of one side has measured. Its JSON is what mountrdma
// bench prints; the roles print the same.
type result struct {
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes"`
	Ops     float64 `json:"ops"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"lat_us"`
	Client float64 `json:"client_cpu_s"`

	Server float64 `json:"-"` // seconds of CPU, of the server
	Memory float64 `json:"-"` // octets that the server has resident
	Calls  float64 `json:"-"` // of any program, that the server has got
}

// What rows compare.
func rate(r *result) float64    { return r.Bytes / r.Seconds / 1e9 } // GB/s
func calls(r *result) float64   { return r.Ops / r.Seconds / 1e3 }   // thousands a second
func p50(r *result) float64     { return r.Latency.P50 }             // microseconds
func p50ms(r *result) float64   { return r.Latency.P50 / 1e3 }
func perGiB(r *result) float64  { return (r.Client + r.Server) / (r.Bytes / (1 << 30)) }
func kib(r *result) float64     { return r.Memory / 1024 }
func seconds(r *result) float64 { return r.Seconds }
func served(r *result) float64  { return r.Calls }
func perCall(r *result) float64 { return (r.Client + r.Server) / r.Ops * 1e6 } // microseconds of CPU
