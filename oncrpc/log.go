package oncrpc

import (
	"log/slog"
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/lograte"
)

// A logger is what a Log is used through: peers do not fill it.
type logger struct {
	once sync.Once
	calm *slog.Logger
}

// of returns it; nil stands for slog.Default.
func (l *logger) of(log *slog.Logger) *slog.Logger {
	l.once.Do(func() {
		if log == nil {
			log = slog.Default()
		}
		l.calm = lograte.Logger(log)
	})
	return l.calm
}
