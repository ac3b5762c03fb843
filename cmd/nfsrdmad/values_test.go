package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSize(t *testing.T) {
	for word, want := range map[string]int{
		"0": 0, "4096": 4096, "64KiB": 65536, "1MiB": 1 << 20, "1GiB": 1 << 30,
	} {
		var s size
		require.NoError(t, s.Set(word), word)
		assert.Equal(t, want, int(s), word)
	}
	for _, word := range []string{"", "KiB", "-1", "1.5MiB", "1MB", "1 MiB", "2GiB", "99999999999999999999", "0x10"} {
		var s size
		assert.ErrorContains(t, s.Set(word), "not a size", word)
	}
	for n, want := range map[size]string{0: "0", 1000: "1000", 4096: "4KiB", 1 << 20: "1MiB", 1<<20 + 1024: "1025KiB", 1 << 30: "1GiB"} {
		assert.Equal(t, want, n.String())
	}
}
