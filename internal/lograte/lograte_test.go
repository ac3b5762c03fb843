package lograte

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestLogger checks that one message neither fills the log nor keeps others
// out, and that omitted records are counted.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := Logger(slog.New(slog.NewTextHandler(&out, nil)))
		assert.Same(t, log, Logger(log), "it is calm already")
		peers := log.With("peer", "a").WithGroup("g")
		for range 500 {
			log.Warn("lost")
			peers.Error("lost", "n", 1)
		}
		assert.Equal(t, maxLogged, strings.Count(out.String(), "msg=lost"))
		log.Warn("found")
		assert.Contains(t, out.String(), "msg=found\n")
		for range 100 {
			log.Info("here")
		}
		assert.Equal(t, 100, strings.Count(out.String(), "msg=here"), "peers cannot provoke these")
		out.Reset()
		time.Sleep(period)
		log.Warn("lost", "why", "again")
		log.Warn("lost")
		assert.Regexp(t, `msg=lost why=again omitted=980\n.* msg=lost\n$`, out.String())
	})
	Logger(nil).Error("the message is dropped")
}

// TestAudit checks that lines of every level are limited in an audit.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := Audit(Logger(slog.New(slog.NewTextHandler(&out, nil))))
		for range 3 * maxAudited {
			log.Info("here")
		}
		assert.Equal(t, maxAudited, strings.Count(out.String(), "msg=here"))
		time.Sleep(period)
		log.Info("here")
		assert.Contains(t, out.String(), "msg=here omitted=400\n")
	})
}
