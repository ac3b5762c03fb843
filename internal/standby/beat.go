package standby

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
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
	return b, b.Process != "" && (b.State == Serving || b.State == Released) && b.checkNames() == nil
}

// maxHostName is the maximum length of a host's name in bytes (HOST_NAME_MAX of Linux).
const maxHostName = 64

// checkNames checks the host's name and address, which become arguments of the fence command and
// parts of messages.
func (b *Beat) checkNames() error {
	isOther := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	if b.Host == "" || b.Host[0] == '-' || len(b.Host) > maxHostName || strings.ContainsFunc(b.Host, isOther) {
		return fmt.Errorf("the host name %q is not one of letters, digits, periods and hyphens", b.Host)
	}
	if a, err := netip.ParseAddr(b.Address); b.Address != "" && (err != nil || a.Zone() != "") {
		return fmt.Errorf("%q is not an address", b.Address)
	}
	return nil
}

// tenure returns T of the host that has written the beat.
func (b *Beat) tenure() time.Duration {
	return time.Duration(min(max(0, b.Tenure), MaxTenure.Seconds()) * float64(time.Second))
}
