package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
)

// maxProfile is the maximum length of a profile in seconds. A trace of a busy daemon grows by
// about 1 MiB per second, and is kept in memory until it has been read.
const maxProfile = 60

// handleProfiles adds Go's profiles to a server that only the daemon's owner can use: they
// show its command line, slow it down and use its memory.
func handleProfiles(m *http.ServeMux) {
	for path, h := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		m.HandleFunc("/debug/pprof/"+path, boundProfile(h))
	}
}

// boundProfile rejects requests for profiles longer than maxProfile.
func boundProfile(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && !(n <= maxProfile) {
			http.Error(w, fmt.Sprintf("seconds: at most %d", maxProfile), http.StatusBadRequest)
			return
		}
		h(w, r)
	}
}
