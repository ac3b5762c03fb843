package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/bootahead"
)

// The clock of a Keeper goes on while the machine sleeps: a client's does.
func TestBoottime(t *testing.T) {
	bootahead.Run(t, func(t *testing.T) {
		var mono unix.Timespec
		assert.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono))
		assert.GreaterOrEqual(t, boottime()-time.Duration(mono.Nano()), bootahead.By)
		k, err := New(Config{})
		assert.NoError(t, err)
		defer k.Close()
		assert.GreaterOrEqual(t, k.now()-time.Duration(mono.Nano()), bootahead.By)
	})
}
