package report

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// LogLevels is the control socket's response at /log, and the output of nfsrdmad log --json.
// docs/operations.md describes it.
type LogLevels struct {
	Version int              `json:"version"`
	Level   string           `json:"level"`           // of the lines about no client, and about others
	Default string           `json:"default"`         // the level of --log-level
	Until   *time.Time       `json:"until,omitempty"` // when Level is Default again; nil: at a restart
	Clients []ClientLogLevel `json:"clients"`
}

// A ClientLogLevel is the level of the lines about one client, or a network of clients.
type ClientLogLevel struct {
	Client string     `json:"client"`
	Level  string     `json:"level"`
	Until  *time.Time `json:"until,omitempty"`
}

// SchemaVersion returns the document's version.
func (d *LogLevels) SchemaVersion() int { return d.Version }

// PrintText prints the levels as a table.
func (d *LogLevels) PrintText(w io.Writer, now time.Time) error {
	p := &textPage{now: now}
	p.tab = tabwriter.NewWriter(&p.text, 0, 0, 2, ' ', 0)
	rest := ""
	if d.Level != d.Default {
		rest = describeUntil(d.Until, now) + fmt.Sprintf(", then %s", d.Default)
	}
	p.addRow("all", d.Level, rest)
	for _, c := range d.Clients {
		p.addRow(c.Client, c.Level, describeUntil(c.Until, now))
	}
	p.tab.Flush() // into memory
	return p.writeTo(w)
}

func describeUntil(until *time.Time, now time.Time) string {
	if until == nil {
		return "until the daemon exits"
	}
	return "for " + formatSpan(max(until.Sub(now), 0))
}
