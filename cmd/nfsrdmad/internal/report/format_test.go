package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWords(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 1023: "1023", 1024: "1 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB", 123456: "121 KiB", 1023 << 10: "1 MiB",
		256 << 20: "256 MiB", 1 << 40: "1 TiB", 1<<64 - 1: "16 EiB",
	} {
		assert.Equal(t, want, formatSize(n), n)
	}
	for d, want := range map[time.Duration]string{
		-1: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", 3*time.Hour + 59*time.Second: "3 h 0 min",
		50 * time.Hour: "2 d 2 h",
	} {
		assert.Equal(t, want, formatSpan(d))
	}
	for d, want := range map[time.Duration]string{
		999: "999 ns", 1234: "1.23 µs", 20 * time.Millisecond: "20 ms", 5 * time.Second: "5 s",
	} {
		assert.Equal(t, want, formatDuration(d))
	}
	assert.Equal(t, "/a", quoteUnprintable("/a"))
	assert.Equal(t, `"/\x1b[2J"`, quoteUnprintable("/\x1b[2J"))
	assert.Equal(t, `"/\x9b2J"`, quoteUnprintable("/\x9b2J"), "an 8-bit control character, which is invalid UTF-8")
}
