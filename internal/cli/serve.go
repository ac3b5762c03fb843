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

// drainTime bounds the time that calls under way may take after a program is
// told to stop.
const drainTime = 10 * time.Second

// A Way is a listener of a program, with its server.
type Way struct {
	Name     string // in the ready line
	Addr     net.Addr
	Serve    func() error // until Shutdown; then nil
	Shutdown func(context.Context) error
	Close    func() error // before Serve
}

// A listener is the common part of net.Listener and rdma.Listener.
type listener interface {
	Addr() net.Addr
	Close() error
}

// NewWay returns the way through l to s, a server of such listeners.
func NewWay[L listener](name string, l L, s interface {
	Serve(L) error
	Shutdown(context.Context) error
},
) Way {
	return Way{Name: name, Addr: l.Addr(), Serve: func() error { return s.Serve(l) }, Shutdown: s.Shutdown, Close: l.Close}
}

// ReadyLine returns the line that tells scripts the addresses: "ready", the
// address of each way by its name, and further words.
func ReadyLine(ways []Way, more ...string) string {
	words := []string{"ready"}
	for _, w := range ways {
		words = append(words, w.Name+"="+w.Addr.String())
	}
	return strings.Join(append(words, more...), " ") + "\n"
}

// ServeAll serves until ctx ends or all ways have failed, then drains all of
// them. A failed way does not end the others: the failure is in the log, and in
// err at the end. ServeAll prints ready once it serves. idle reports whether no
// call is under way any more.
func ServeAll(ctx context.Context, ways []Way, ready string, stdout io.Writer, log *slog.Logger) (idle bool, err error) {
	ended := make(chan error, len(ways))
	for _, w := range ways {
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
	running := len(ways)
	for running > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			log.Info("stopping: finishing the calls under way", "limit", drainTime)
		case failed := <-ended:
			running--
			err = errors.Join(err, failed)
			log.Error("a listener has failed: clients cannot connect to it until the next start", "error", failed, "others", running)
		}
	}
	idle = drain(ways, log)
	for range running {
		err = errors.Join(err, <-ended)
	}
	return idle, err
}

// drain shuts all ways down at the same time, and returns false if calls took
// longer than drainTime.
func drain(ways []Way, log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	results := make(chan error, len(ways))
	for _, w := range ways {
		go func() { results <- w.Shutdown(ctx) }()
	}
	idle := true
	for range ways {
		if err := <-results; err != nil {
			log.Warn("calls under way were cut off", "err", err)
			idle = false
		}
	}
	return idle
}
