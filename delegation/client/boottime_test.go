package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/bootahead"
)

// The clock of a Set goes on while the machine sleeps: the server's does.
func TestBoottime(t *testing.T) {
	bootahead.Run(t, func(t *testing.T) {
		var mono unix.Timespec
		assert.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
		assert.GreaterOrEqual(t, boottime()-time.Duration(mono.Nano()), bootahead.By)
		assert.GreaterOrEqual(t, New(Config{}).cfg.Now()-time.Duration(mono.Nano()), bootahead.By)
	})
}
