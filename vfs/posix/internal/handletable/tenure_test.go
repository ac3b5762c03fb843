package handletable

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMayWrite checks that a table changes no file when it may not.
func TestMayWrite(t *testing.T) {
	dir, errLate := t.TempDir(), errors.New("late")
	var verdict error
	tab, err := Open(dir, testRoot, func() error { return verdict }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	putAll(t, tab, numbered(1))
	before, err := os.ReadFile(filepath.Join(dir, FileName))
	require.NoError(t, err)

	verdict = errLate
	require.NoError(t, tab.Put(numbered(2)))
	assert.ErrorIs(t, tab.Flush(), errLate)
	assert.ErrorIs(t, tab.compactLog(), errLate)
	assert.ErrorIs(t, tab.truncate(0), errLate)
	verdict = nil
	next, err := tab.newSuccessor()
	require.NoError(t, err)
	verdict = errLate
	assert.ErrorIs(t, tab.replaceBy(&next), errLate)
	next.discardFile()
	require.NoError(t, tab.Close())
	after, err := os.ReadFile(filepath.Join(dir, FileName))
	require.NoError(t, err)
	assert.Equal(t, before, after)

	_, err = Open(filepath.Join(dir, "new"), testRoot, func() error { return errLate }, slog.New(slog.DiscardHandler))
	assert.ErrorIs(t, err, errLate)
	assert.NoDirExists(t, filepath.Join(dir, "new"))
}
