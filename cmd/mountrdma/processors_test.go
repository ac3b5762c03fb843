package main

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRaiseProcessors checks that a mount has spare processors, unless the
// environment or the host determines their number.
func TestRaiseProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, tt := range []struct {
		env       string
		has, want int
	}{
		{"", 2, minProcessors},
		{"", minProcessors + 1, minProcessors + 1},
		{"2", 2, 2},
	} {
		t.Setenv("GOMAXPROCS", tt.env)
		runtime.GOMAXPROCS(tt.has)
		raiseProcessors()
		assert.Equal(t, tt.want, runtime.GOMAXPROCS(0), tt)
	}
}
