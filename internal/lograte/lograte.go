// Package lograte keeps a log readable under any behaviour of peers: frequent
// repetitions of a message are counted instead of logged. The package must not
// know the messages.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits of our own.
const (
	// maxLogged is how many records of one message are logged in a period.
	// Otherwise a peer that reconnects in a loop would fill the log.
	maxLogged = 20
	period    = 10 * time.Second

	// maxAudited is the same for an audit, which has a line for each connection: all
	// clients of a server may come at once.
	maxAudited = 200
)

// Logger returns a Logger in front of l that logs no warning or error of the
// same message more than 20 times in 10 s. The next record gives the number of
// omitted records in the attribute omitted. If l is nil, the Logger discards
// everything. Messages must come from a small fixed set; variable parts must be
// attributes.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, ok := l.Handler().(*handler); ok {
		return l
	}
	return slog.New(&handler{l.Handler(), &messages{most: maxLogged}, slog.LevelWarn})
}

// Audit returns a Logger in front of l for lines that peers cause although nothing is
// wrong: it logs no record of any level of the same message more than 200 times in 10 s.
func Audit(l *slog.Logger) *slog.Logger {
	return slog.New(&handler{l.Handler(), &messages{most: maxAudited}, slog.LevelDebug})
}

// A handler is a Logger's handler in front of another.
type handler struct {
	next slog.Handler
	seen *messages
	from slog.Level // the lowest that is bounded
}

// messages are the recently logged messages, shared by handlers with
// attributes.
type messages struct {
	most int // records of a message in a period

	mu sync.Mutex
	m  map[string]*message
}

type message struct {
	since   time.Time // when the period began
	logged  int       // in this period
	omitted int       // since the last logged record
}

// allow reports whether to log a message now, and the number of omitted records
// before.
func (s *messages) allow(msg string) (ok bool, omitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m[msg]
	if m == nil {
		m = new(message)
		if s.m == nil {
			s.m = make(map[string]*message)
		}
		s.m[msg] = m
	}
	if now := time.Now(); now.Sub(m.since) >= period {
		m.since, m.logged = now, 0
	}
	if m.logged == s.most {
		m.omitted++
		return false, 0
	}
	m.logged++
	omitted, m.omitted = m.omitted, 0
	return true, omitted
}

// Enabled is that of the next handler, like the methods below (slog.Handler).
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= h.from {
		ok, omitted := h.seen.allow(r.Message)
		if !ok {
			return nil
		}
		if omitted > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("omitted", omitted))
		}
	}
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.next.WithAttrs(attrs), h.seen, h.from}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.seen, h.from}
}
