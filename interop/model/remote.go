package model

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

func sortNames(names []string) []string {
	slices.Sort(names)
	return names
}

// Serve reads operations, one line each, does them in dir, and writes a line
// with each one's result, until in ends.
func Serve(dir string, in io.Reader, out io.Writer) error {
	defer unix.Umask(unix.Umask(0))
	lines, results := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o Op
		if err := lines.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r, err := Dir(dir).Do(o)
		if err != nil {
			return err
		}
		if err := results.Encode(r); err != nil {
			return err
		}
	}
}

// A Remote passes operations to a Serve at the other end.
type Remote struct {
	ops     *json.Encoder
	results *json.Decoder
}

// NewRemote talks to a Serve that reads and writes rw.
func NewRemote(rw io.ReadWriter) *Remote {
	return &Remote{json.NewEncoder(rw), json.NewDecoder(rw)}
}

// Do does an operation at the other end.
func (m *Remote) Do(o Op) (r Result, err error) {
	if err = m.ops.Encode(o); err == nil {
		err = m.results.Decode(&r)
	}
	if err != nil {
		err = fmt.Errorf("no result of %s: %w", o, err)
	}
	return r, err
}
