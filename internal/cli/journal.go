package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewLogHandler returns the handler of a program's log: text on w, or the journal's own protocol
// if w is standard error and systemd has connected that to the journal.
func NewLogHandler(w io.Writer, level slog.Leveler) slog.Handler {
	if isJournal(w) {
		return &journalHandler{level: level, attrs: journalAttrs{fields: programFields()}, send: journal.Send}
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
}

// programFields are the fields of all messages, which journalctl -t needs.
func programFields() map[string]string {
	return map[string]string{"SYSLOG_IDENTIFIER": filepath.Base(os.Args[0])}
}

// isJournal reports whether w is standard error and connected to the journal.
func isJournal(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := journal.StderrIsJournalStream()
	return err == nil && is
}

// printError prints the error with which a program ends.
func printError(w io.Writer, program string, err error) {
	if isJournal(w) && journal.Send(err.Error(), journal.PriErr, programFields()) == nil {
		return
	}
	fmt.Fprintf(w, "%s: %v\n", program, err)
}

// A journalHandler sends records to the journal. A record's message has the attributes as text,
// too, because journalctl shows only the message; the journal adds the time.
type journalHandler struct {
	level  slog.Leveler
	prefix string // of keys: the group, or ""
	attrs  journalAttrs
	send   func(message string, p journal.Priority, fields map[string]string) error
}

// journalAttrs are attributes as text and as journal fields (systemd.journal-fields(7)).
type journalAttrs struct {
	text   string // each after a blank
	fields map[string]string
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler.
func (h *journalHandler) Handle(_ context.Context, r slog.Record) error {
	a := h.attrs.clone()
	r.Attrs(func(one slog.Attr) bool {
		a.add(h.prefix, one)
		return true
	})
	return h.send(r.Message+a.text, journalPriority(r.Level), a.fields)
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = h.attrs.clone()
	for _, a := range attrs {
		next.attrs.add(h.prefix, a)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.prefix += name + "."
	}
	return &next
}

func (a journalAttrs) clone() journalAttrs {
	fields := maps.Clone(a.fields)
	if fields == nil {
		fields = make(map[string]string)
	}
	return journalAttrs{a.text, fields}
}

// add adds an attribute, whose key follows prefix.
func (a *journalAttrs) add(prefix string, one slog.Attr) {
	value := one.Value.Resolve()
	switch {
	case one.Equal(slog.Attr{}):
	case value.Kind() == slog.KindGroup:
		if one.Key != "" {
			prefix += one.Key + "."
		}
		for _, inner := range value.Group() {
			a.add(prefix, inner)
		}
	default:
		key, text := prefix+one.Key, value.String()
		a.fields[journalField(key)] = text
		if text == "" || strings.ContainsFunc(text, needsQuotes) {
			text = strconv.Quote(text)
		}
		a.text += fmt.Sprintf(" %s=%s", key, text)
	}
}

func needsQuotes(r rune) bool { return r == '"' || r == '=' || r <= ' ' || !unicode.IsPrint(r) }

// journalField returns the name of the journal field for a key.
func journalField(key string) string {
	return "NFSRDMA_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// journalPriority returns a level's priority (syslog(3)).
func journalPriority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}
