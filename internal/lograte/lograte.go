// Package lograte keeps a log readable whatever peers do: frequently repeated
// messages are counted instead of logged. The package must not depend on the
// messages.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limits on logging.
const (
	// maxLogged is how many records with one message are logged in a period.
	// Otherwise a peer that reconnects in a loop would fill the log.
	maxLogged = 20
	period    = 10 * time.Second

	// maxAudited is the same for an audit, which has a line for each connection:
	// all clients may connect at once.
	maxAudited = 200
)

// Logger returns a Logger in front of l that logs no warning or error with the same
// message more than 20 times in 10 s. The next record has the attribute omitted,
// which counts the omitted records. If l is nil, the Logger discards everything.
// Messages must come from a small fixed set; variable parts must be attributes.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if _, ok := l.Handler().(*limitingHandler); ok {
		return l
	}
	return slog.New(&limitingHandler{l.Handler(), &messageCounts{limit: maxLogged}, slog.LevelWarn})
}

// Audit returns a Logger in front of l for lines that peers cause although nothing
// is wrong: it logs no record at any level with the same message more than 200
// times in 10 s.
func Audit(l *slog.Logger) *slog.Logger {
	return slog.New(&limitingHandler{l.Handler(), &messageCounts{limit: maxAudited}, slog.LevelDebug})
}

// A limitingHandler is a Logger's handler in front of another.
type limitingHandler struct {
	next     slog.Handler
	counts   *messageCounts
	minLevel slog.Level // the lowest limited level
}

// messageCounts holds the recently logged messages, shared by handlers with
// attributes.
type messageCounts struct {
	limit int // maximum record count for a message in a period

	mu sync.Mutex
	m  map[string]*messageCount
}

type messageCount struct {
	since   time.Time // when the period began
	logged  int       // number in this period
	omitted int       // number since the last logged record
}

// allowRecord reports whether to log a message now, and how many records were
// omitted before.
func (s *messageCounts) allowRecord(msg string) (ok bool, omitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m[msg]
	if m == nil {
		m = new(messageCount)
		if s.m == nil {
			s.m = make(map[string]*messageCount)
		}
		s.m[msg] = m
	}
	if now := time.Now(); now.Sub(m.since) >= period {
		m.since, m.logged = now, 0
	}
	if m.logged == s.limit {
		m.omitted++
		return false, 0
	}
	m.logged++
	omitted, m.omitted = m.omitted, 0
	return true, omitted
}

// Enabled implements slog.Handler.
func (h *limitingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

func (h *limitingHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= h.minLevel {
		ok, omitted := h.counts.allowRecord(r.Message)
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

func (h *limitingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitingHandler{h.next.WithAttrs(attrs), h.counts, h.minLevel}
}

func (h *limitingHandler) WithGroup(name string) slog.Handler {
	return &limitingHandler{h.next.WithGroup(name), h.counts, h.minLevel}
}
