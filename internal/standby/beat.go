package standby

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// States of a Beat.
const (
	Serving  = "serving"
	Released = "released" // the host has stopped, and the next one may start at once
)

// A Beat is the record with which the serving host shows that it is alive.
type Beat struct {
	Version int     `json:"version"` // beatVersion
	State   string  `json:"state"`
	Host    string  `json:"host"`
	Address string  `json:"address,omitempty"` // for the fence command
	Boot    string  `json:"boot"`              // the kernel's boot ID
	Process string  `json:"process"`           // differs between any two starts
	Count   uint64  `json:"count"`
	Tenure  float64 `json:"tenure_seconds"` // T
	Program string  `json:"program"`        // the program's version
}

const (
	beatVersion = 1
	beatLen     = 1024 // bytes of the file: one sector or two, written by one call
)

// MinTenure and MaxTenure bound T.
const (
	MinTenure = time.Second
	MaxTenure = 5 * time.Minute
)

// encode returns the file's content: JSON, padded with spaces.
func (b *Beat) encode() ([]byte, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	if len(text) >= beatLen {
		return nil, fmt.Errorf("a beat of %d bytes is too long", len(text))
	}
	padded := append(text, bytes.Repeat([]byte{' '}, beatLen-1-len(text))...)
	return append(padded, '\n'), nil
}

// parseBeat returns the beat in a file's content. It returns false for an empty file, and for what no
// host of this version has written.
func parseBeat(value []byte) (b Beat, ok bool) {
	if len(value) != beatLen || json.Unmarshal(value, &b) != nil || b.Version != beatVersion {
		return Beat{}, false
	}
	return b, b.Process != "" && (b.State == Serving || b.State == Released)
}

// tenure returns T of the host that has written the beat.
func (b *Beat) tenure() time.Duration {
	return min(max(0, time.Duration(b.Tenure*float64(time.Second))), MaxTenure)
}
