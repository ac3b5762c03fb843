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
		assert.Equal(t, tt.want, limitLease(tt.asked, tt.wait, log))
	}
	assert.Positive(t, leaseTerm(defaultLease, log))
}

func TestMayDelegate(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tt := range []struct {
		lease, wait time.Duration
		want        bool
	}{
		{40 * time.Second, 45 * time.Second, true},
		{41 * time.Second, 45 * time.Second, false},
		{40 * time.Second, 44 * time.Second, false},
		{time.Hour, 0, true},
	} {
		assert.Equal(t, tt.want, canAwaitRecall(tt.lease, tt.wait, log), "%v of %v", tt.lease, tt.wait)
	}
}
