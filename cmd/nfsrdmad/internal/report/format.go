package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// formatSize formats a byte count with three significant digits.
func formatSize(n uint64) string {
	if n < 1024 {
		return strconv.FormatUint(n, 10)
	}
	f, unit := float64(n)/1024, 0
	for f >= 999.5 {
		f, unit = f/1024, unit+1
	}
	digits := 0
	switch {
	case f < 9.995:
		digits = 2
	case f < 99.95:
		digits = 1
	}
	text := strconv.FormatFloat(f, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + "KMGTPE"[unit:unit+1] + "iB"
}

// formatSpan formats a time span in its two largest units.
func formatSpan(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	for _, u := range []struct {
		seconds, part int64
		name, sub     string
	}{{86400, 3600, "d", "h"}, {3600, 60, "h", "min"}, {60, 1, "min", "s"}} {
		if s >= u.seconds {
			return fmt.Sprintf("%d %s %d %s", s/u.seconds, u.name, s%u.seconds/u.part, u.sub)
		}
	}
	return fmt.Sprintf("%d s", s)
}

// formatDuration formats a call's duration with three significant digits.
func formatDuration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= u.unit {
			return strconv.FormatFloat(float64(d)/float64(u.unit), 'g', 3, 64) + " " + u.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// quoteUnprintable returns a name in a form that is safe to print on a terminal.
func quoteUnprintable(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == '"' }) {
		return strconv.Quote(name)
	}
	return name
}
