package cli

import (
	"bytes"
	"log/slog"
	"os"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A sentMessage is a message that a journalHandler has sent.
type sentMessage struct {
	message  string
	priority journal.Priority
	fields   map[string]string
}

// TestJournalHandler checks the messages for the journal: priorities, the attributes as text and as
// fields, groups, and no time.
func TestJournalHandler(t *testing.T) {
	var sent []sentMessage
	h := &journalHandler{level: slog.LevelInfo, send: func(message string, p journal.Priority, fields map[string]string) error {
		sent = append(sent, sentMessage{message, p, fields})
		return nil
	}}
	log := slog.New(h)
	log.Debug("not sent")
	log.Info("plain")
	mount := log.With("export", "/srv/a b")
	mount.Warn("rejected", "client", "192.0.2.1", "port", 700, "empty", "")
	mount.WithGroup("tls").Error("broken", slog.Group("by", "why", "a\nb"), "n", 1)
	log.WithGroup("").Log(t.Context(), slog.LevelError+1, "worse")
	assert.Equal(t, []sentMessage{
		{"plain", journal.PriInfo, map[string]string{}},
		{
			`rejected export="/srv/a b" client=192.0.2.1 port=700 empty=""`, journal.PriWarning,
			map[string]string{"NFSRDMA_EXPORT": "/srv/a b", "NFSRDMA_CLIENT": "192.0.2.1", "NFSRDMA_PORT": "700", "NFSRDMA_EMPTY": ""},
		},
		{
			`broken export="/srv/a b" tls.by.why="a\nb" tls.n=1`, journal.PriErr,
			map[string]string{"NFSRDMA_EXPORT": "/srv/a b", "NFSRDMA_TLS_BY_WHY": "a\nb", "NFSRDMA_TLS_N": "1"},
		},
		{"worse", journal.PriErr, map[string]string{}},
	}, sent)
}

// TestLogWithoutJournal checks that a log or an error that does not go to the journal is text.
func TestLogWithoutJournal(t *testing.T) {
	var out bytes.Buffer
	slog.New(NewLogHandler(&out, slog.LevelInfo)).Error("failed", "err", "x")
	assert.Contains(t, out.String(), "level=ERROR msg=failed err=x")
	out.Reset()
	printError(&out, "program", os.ErrNotExist)
	assert.Equal(t, "program: file does not exist\n", out.String())
	require.False(t, isJournal(&out))
}
