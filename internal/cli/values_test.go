package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSize(t *testing.T) {
	for word, want := range map[string]int{
		"0": 0, "4096": 4096, "64KiB": 65536, "1MiB": 1 << 20, "1GiB": 1 << 30,
	} {
		var s Size
		require.NoError(t, s.Set(word), word)
		assert.Equal(t, want, int(s), word)
	}
	for _, word := range []string{"", "KiB", "-1", "1.5MiB", "1MB", "1 MiB", "2GiB", "99999999999999999999", "0x10"} {
		var s Size
		assert.ErrorContains(t, s.Set(word), "not a size", word)
	}
	for n, want := range map[Size]string{0: "0", 1000: "1000", 4096: "4KiB", 1 << 20: "1MiB", 1<<20 + 1024: "1025KiB", 1 << 30: "1GiB"} {
		assert.Equal(t, want, n.String())
	}
}

func TestChoice(t *testing.T) {
	c := NewChoice("auto", "auto", "on", "off")
	assert.Equal(t, "auto", c.String())
	assert.Equal(t, "auto|on|off", c.Type())
	require.NoError(t, c.Set("off"))
	assert.Equal(t, "off", c.Word)
	assert.EqualError(t, c.Set("maybe"), "not one of auto, on, off")
	assert.Equal(t, "off", c.Word)
}

func TestWithin(t *testing.T) {
	for n := int64(0); n < 5; n++ {
		err := CheckRange("--n", n, 1, 3)
		if n >= 1 && n <= 3 {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, "is not between 1 and 3")
		}
	}
}
