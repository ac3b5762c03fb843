package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"
)

// drainTimeout is how long pending calls may take after a program was told to stop.
const drainTimeout = 10 * time.Second

// An Endpoint is a listener of a program and the server of its connections.
type Endpoint struct {
	Name     string // in the ready line
	Addr     net.Addr
	Serve    func() error // returns nil after Shutdown
	Shutdown func(context.Context) error
	Close    func() error // used instead of Serve
}

// A listener is a net.Listener or an rdma.Listener.
type listener interface {
	Addr() net.Addr
	Close() error
}

// NewEndpoint returns the Endpoint of listener l and server s.
func NewEndpoint[L listener](name string, l L, s interface {
	Serve(L) error
	Shutdown(context.Context) error
},
) Endpoint {
	return Endpoint{Name: name, Addr: l.Addr(), Serve: func() error { return s.Serve(l) }, Shutdown: s.Shutdown, Close: l.Close}
}

// ReadyLine returns the line that tells scripts the addresses: "ready", the name and
// address of each endpoint, and further words.
func ReadyLine(endpoints []Endpoint, more ...string) string {
	words := []string{"ready"}
	for _, w := range endpoints {
		words = append(words, w.Name+"="+w.Addr.String())
	}
	return strings.Join(append(words, more...), " ") + "\n"
}

// ServeAll serves until ctx ends or all endpoints have failed, and then shuts all of
// them down. A failed endpoint does not stop the others: the failure is logged and
// returned at the end. ServeAll prints ready once it serves. idle reports whether no
// calls are pending at the end.
func ServeAll(ctx context.Context, endpoints []Endpoint, ready string, stdout io.Writer, log *slog.Logger) (idle bool, err error) {
	ended := make(chan error, len(endpoints))
	for _, w := range endpoints {
		go func() {
			err := w.Serve()
			if err != nil {
				err = fmt.Errorf("%s on %s: %w", w.Name, w.Addr, err)
			}
			ended <- err
		}()
	}
	if _, err := io.WriteString(stdout, ready); err != nil {
		log.Warn("the ready line could not be written", "err", err)
	}
	running := len(endpoints)
	for running > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			log.Info("stopping: finishing the pending calls", "limit", drainTimeout)
		case failed := <-ended:
			running--
			if failed == nil { // the caller has shut it down
				continue
			}
			err = errors.Join(err, failed)
			log.Error("listener failed; clients cannot connect to it until this program is restarted", "error", failed, "others", running)
		}
	}
	idle = shutdownAll(endpoints, log)
	for range running {
		err = errors.Join(err, <-ended)
	}
	return idle, err
}

// shutdownAll shuts all endpoints down concurrently. It returns false if calls took
// longer than drainTimeout.
func shutdownAll(endpoints []Endpoint, log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	results := make(chan error, len(endpoints))
	for _, w := range endpoints {
		go func() { results <- w.Shutdown(ctx) }()
	}
	idle := true
	for range endpoints {
		if err := <-results; err != nil {
			log.Warn("pending calls were aborted", "err", err)
			idle = false
		}
	}
	return idle
}
