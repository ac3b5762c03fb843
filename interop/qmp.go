package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// qmpClient speaks the QEMU Machine Protocol, one command at a time.
type qmpClient struct {
	w io.Writer
	d *json.Decoder
}

// newQMP reads the greeting and leaves the negotiation mode.
func newQMP(r io.Reader, w io.Writer) (*qmpClient, error) {
	q := &qmpClient{w: w, d: json.NewDecoder(r)}
	var greeting map[string]any
	if err := q.d.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qmp greeting: %w", err)
	}
	_, err := q.runCommand("qmp_capabilities", nil)
	return q, err
}

// runCommand returns a command's result; earlier events are dropped.
func (q *qmpClient) runCommand(name string, args map[string]any) (json.RawMessage, error) {
	c := map[string]any{"execute": name}
	if args != nil {
		c["arguments"] = args
	}
	if err := json.NewEncoder(q.w).Encode(c); err != nil {
		return nil, fmt.Errorf("qmp %s: %w", name, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := q.d.Decode(&answer); err != nil {
			return nil, fmt.Errorf("qmp %s: %w", name, err)
		}
		switch {
		case answer.Error != nil:
			return nil, fmt.Errorf("qmp %s: %s", name, answer.Error.Desc)
		case answer.Return != nil:
			return answer.Return, nil
		}
	}
}

// forwardLine matches a line of "info usernet": the host's port that qemu
// chose, and the guest's port.
var forwardLine = regexp.MustCompile(`TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)`)

// listForwards returns the host's port for each forwarded guest port.
func (q *qmpClient) listForwards() (map[int]int, error) {
	raw, err := q.runCommand("human-monitor-command", map[string]any{"command-line": "info usernet"})
	if err != nil {
		return nil, err
	}
	var table string
	if err := json.Unmarshal(raw, &table); err != nil {
		return nil, fmt.Errorf("qmp info usernet: %w", err)
	}
	ports := make(map[int]int)
	for _, m := range forwardLine.FindAllStringSubmatch(table, -1) {
		host, _ := strconv.Atoi(m[1])
		guest, _ := strconv.Atoi(m[2])
		ports[guest] = host
	}
	return ports, nil
}
