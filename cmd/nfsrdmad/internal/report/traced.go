package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A TracedCall is a line of nfsrdmad trace. Names and paths are clients' data. docs/operations.md
// describes it.
type TracedCall struct {
	Time         time.Time         `json:"time"` // of arrival
	Client       string            `json:"client"`
	Transport    string            `json:"transport"`
	Program      string            `json:"program"`
	Procedure    string            `json:"procedure"`
	Operations   []TracedOperation `json:"operations,omitempty"`
	Export       string            `json:"export,omitempty"`
	Path         string            `json:"path,omitempty"`    // on the host, of the first file handle
	FileID       uint64            `json:"file_id,omitempty"` // likewise
	Handle       string            `json:"handle,omitempty"`  // hexadecimal, if neither is known
	Name         string            `json:"name,omitempty"`    // below it, or a path to mount
	BytesIn      uint64            `json:"bytes_in"`
	BytesOut     uint64            `json:"bytes_out"`
	BytesRead    uint64            `json:"bytes_read"`
	BytesWritten uint64            `json:"bytes_written"`
	Status       string            `json:"status"`
	Failed       bool              `json:"failed"`
	Seconds      float64           `json:"seconds"` // until the reply was sent

	// Dropped is the number of calls that were dropped before this one, because there were too
	// many. A line with Dropped has nothing else.
	Dropped uint64 `json:"dropped,omitempty"`
}

// A TracedOperation is an executed operation of a COMPOUND.
type TracedOperation struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// A droppedLine is the line for dropped calls.
type droppedLine struct {
	Dropped uint64 `json:"dropped"`
}

// DroppedLine returns the document that says that n calls were dropped.
func DroppedLine(n uint64) any { return droppedLine{n} }

// PrintText prints the call as a line.
func (c *TracedCall) PrintText(w io.Writer) error {
	if c.Dropped > 0 {
		_, err := fmt.Fprintf(w, "%d calls dropped: there are too many; a filter helps\n", c.Dropped)
		return err
	}
	words := []string{c.Time.Local().Format("15:04:05.000000"), c.Client, orDash(quoteUnprintable(c.Export)), c.Program, c.Procedure, c.objectWords()}
	if len(c.Operations) > 0 {
		var ops []string
		for _, o := range c.Operations {
			ops = append(ops, o.Name)
		}
		words = append(words, "["+strings.Join(ops, " ")+"]")
	}
	if c.BytesRead > 0 {
		words = append(words, "read "+formatSize(c.BytesRead))
	}
	if c.BytesWritten > 0 {
		words = append(words, "written "+formatSize(c.BytesWritten))
	}
	words = append(words, c.Status, formatDuration(time.Duration(c.Seconds*float64(time.Second))))
	_, err := fmt.Fprintln(w, strings.Join(words, " "))
	return err
}

// objectWords names the object.
func (c *TracedCall) objectWords() string {
	object := "-"
	switch {
	case c.Path != "":
		object = quoteUnprintable(c.Path)
	case c.FileID != 0:
		object = fmt.Sprintf("fileid=%d", c.FileID)
	case c.Handle != "":
		object = "handle=" + c.Handle
	}
	if c.Name != "" {
		object += " " + quoteUnprintable(c.Name)
	}
	return object
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
