package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// fsType is the type of our mounts in /proc/mounts.
const fsType = "fuse.nfsrdma"

// A mounted is a line of /proc/self/mountinfo (proc(5)).
type mounted struct{ device, point, kind, source string }

// mountAt returns the topmost mount on a directory.
func mountAt(point string) (m mounted, found bool, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return m, false, fmt.Errorf("the mounts of this host cannot be read: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		if l, ok := parseMount(line); ok && l.point == point {
			m, found = l, true
		}
	}
	return m, found, nil
}

func parseMount(line string) (m mounted, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	if len(fields) < 5 || len(rest) < 2 {
		return m, false
	}
	return mounted{device: fields[2], point: unoctal(fields[4]), kind: rest[0], source: unoctal(rest[1])}, true
}

// unoctal replaces each \ooo by its byte.
func unoctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
