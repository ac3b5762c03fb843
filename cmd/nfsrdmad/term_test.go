package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLeaseTerm(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tt := range []struct{ asked, wait, want time.Duration }{
		{10 * time.Second, 45 * time.Second, 10 * time.Second},
		{15 * time.Second, 45 * time.Second, 15 * time.Second},
		{16 * time.Second, 45 * time.Second, 15 * time.Second},
		{10 * time.Second, time.Second, time.Second / 3},
		{5 * time.Minute, 0, 5 * time.Minute},
	} {
		assert.Equal(t, tt.want, shortened(tt.asked, tt.wait, log))
	}
	assert.Positive(t, leaseTerm(defaultLease, log))
}
