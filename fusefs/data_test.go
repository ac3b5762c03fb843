package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestContent writes and reads files of odd lengths.
func TestContent(t *testing.T) {
	s, m := newMount(t)
	for _, size := range []int{0, 1, 3, 4095, 4096, 4097, 128<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9<<20 + 13} {
		data := sample(size)
		name := fmt.Sprint(size)
		require.NoError(t, os.WriteFile(m.file(name), data, 0o640))
		there, err := os.ReadFile(s.file(name))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, there), "at the server, %d octets", size)
		here, err := os.ReadFile(m.file(name))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, here), "by the mount, %d octets", size)
		require.NoError(t, os.WriteFile(s.file("made"+name), data, 0o640))
		here, err = os.ReadFile(m.file("made" + name))
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, here), "made by the server, %d octets", size)
	}
}
