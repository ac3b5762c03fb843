package mountinfo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	m, ok := parseLine(`36 35 0:51 / /mnt/a\040b\134c rw,nosuid shared:1 master:2 - fuse.nfsrdma h:/x\011y rw,user_id=0` + "\n")
	assert.True(t, ok)
	assert.Equal(t, Mount{ID: 36, Parent: 35, Device: "0:51", Point: `/mnt/a b\c`, Kind: "fuse.nfsrdma", Source: "h:/x\ty"}, m)
	m, ok = parseLine("36 35 0:51 / /mnt/a\u00a0b\v rw - ext4 /dev/x\u2003 rw\n")
	assert.True(t, ok)
	assert.Equal(t, []string{"/mnt/a\u00a0b\v", "/dev/x\u2003"}, []string{m.Point, m.Source}, "the kernel escapes only four characters")
	for _, line := range []string{"", "a b c - d", "1 2 3 4 5 -", "1 2 3 4 - 5 6", "x 2 3 4 5 - 6 7"} {
		_, ok := parseLine(line)
		assert.False(t, ok, line)
	}
	assert.Equal(t, `\9\12x`, decodeOctal(`\9\12x`))
}

func TestAt(t *testing.T) {
	m, found, err := At("/")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "/", m.Point)
	_, found, err = At(t.TempDir())
	require.NoError(t, err)
	assert.False(t, found)
}
