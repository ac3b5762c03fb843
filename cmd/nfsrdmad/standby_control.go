package main

import (
	"log/slog"
	"net/http"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
)

// openWaiting opens the control socket and the address of --metrics before the daemon serves, so that
// they can say what it waits for, and returns a function that closes them. openServices leaves them
// open.
func (p *runningDaemon) openWaiting(o *operatorOptions, log *slog.Logger) (end func(), err error) {
	p.serviceManager = serviceManager{log}
	m, err := p.listenMetrics(o, log)
	if err != nil {
		return nil, err
	}
	c, err := p.openControl(o, log)
	if err != nil {
		m.Close()
		return nil, err
	}
	p.opened = true
	stop := p.notifyWaiting()
	return func() {
		stop()
		c.close()
		m.Close()
	}, nil
}

// whileWaiting returns a handler that uses waiting until the daemon serves, and then serving.
func (p *runningDaemon) whileWaiting(waiting, serving http.Handler) http.Handler {
	if p.standby == nil {
		return serving
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.standby.isWaiting() {
			waiting.ServeHTTP(w, r)
			return
		}
		serving.ServeHTTP(w, r)
	})
}

// waitingControl returns the handler for the control socket of a daemon that waits. Orders are
// rejected with what it waits for.
func (p *runningDaemon) waitingControl() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		writeDocument(w, report.NewWaitingStatus(buildinfo.Version(version), p.standby.describe()))
	})
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this daemon does not serve yet, so use the one that does: "+p.standby.describe().Text, http.StatusConflict)
	})
	m.HandleFunc("GET /log", p.serveLevels)
	m.HandleFunc("POST /log", orderHandler(p.log.handleLevel))
	handleProfiles(m)
	return m
}

// waitingMetrics returns the handler for --metrics of a daemon that waits.
func (p *runningDaemon) waitingMetrics() http.Handler {
	return report.NewWaitingHandler(buildinfo.Version(version), p.standby.describe)
}
