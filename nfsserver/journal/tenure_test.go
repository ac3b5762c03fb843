package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// TestTenure checks that a journal changes nothing after the end of a tenure, and that everything
// that changes a directory asks by itself.
func TestTenure(t *testing.T) {
	dir := t.TempDir()
	word := tenure.Now() + int64(time.Hour)
	held := tenure.New(&word)
	j, _, err := Open(dir, testName, testText, held)
	require.NoError(t, err)
	require.NoError(t, j.Append(newRecord("in time")))
	before, err := os.ReadFile(filepath.Join(dir, testName))
	require.NoError(t, err)
	held.End()
	assert.ErrorIs(t, j.Append(newRecord("late")), tenure.ErrOver)
	assert.ErrorIs(t, j.Replace(func() [][]byte { return nil }), tenure.ErrOver)

	d, f := j.disk, j.file
	_, err = f.WriteAt([]byte{0}, 0)
	assert.ErrorIs(t, err, tenure.ErrOver)
	assert.ErrorIs(t, f.Truncate(0), tenure.ErrOver)
	assert.ErrorIs(t, f.allocateBytes(0, 1<<20), tenure.ErrOver)
	assert.ErrorIs(t, d.renameFile(testName, "x"), tenure.ErrOver)
	assert.ErrorIs(t, d.linkFile(testName, "x"), tenure.ErrOver)
	assert.ErrorIs(t, d.removeFile(testName), tenure.ErrOver)
	_, err = d.createFile("x")
	assert.ErrorIs(t, err, tenure.ErrOver)
	require.NoError(t, j.Close())

	after, err := os.ReadFile(filepath.Join(dir, testName))
	require.NoError(t, err)
	assert.Equal(t, before, after)
	_, _, err = Open(dir, testName, testText, held)
	assert.ErrorIs(t, err, tenure.ErrOver)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 1)
}
