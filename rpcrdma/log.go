package rpcrdma

import (
	"log/slog"
	"sync"
	"time"
)

// A limitedLog logs warnings, and counts those that it leaves out.
type limitedLog struct {
	*slog.Logger

	mu      sync.Mutex
	since   time.Time // when the period began
	logged  int       // in this period
	omitted int       // since the last warning
}

// warn logs a warning, unless too many came before it.
func (l *limitedLog) warn(msg string, args ...any) {
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.since) >= logPeriod {
		l.since, l.logged = now, 0
	}
	if l.logged == maxLogged {
		l.omitted++
		l.mu.Unlock()
		return
	}
	l.logged++
	if l.omitted > 0 {
		args = append(args, "omitted", l.omitted)
		l.omitted = 0
	}
	l.mu.Unlock()
	l.Warn(msg, args...)
}
