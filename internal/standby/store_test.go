package standby

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDir checks the beat in a directory, and that a directory that is missing is no missing beat: its
// file system may not be mounted.
func TestDir(t *testing.T) {
	path := t.TempDir()
	d := NewDir(path, "lock")
	got, err := d.ReadBeat()
	require.NoError(t, err)
	assert.Empty(t, got)
	for n := range uint64(3) {
		value := encodeBeat(t, "a", Serving, n)
		require.NoError(t, d.WriteBeat(value))
		got, err = d.ReadBeat()
		require.NoError(t, err)
		assert.Equal(t, value, got)
	}
	info, err := os.Stat(filepath.Join(path, FileName))
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())
	_, err = NewDir(filepath.Join(path, "missing"), "lock").ReadBeat()
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// TestHostileBeat checks that no other content than a beat is accepted, and that no kind of file makes a
// host wait or write elsewhere.
func TestHostileBeat(t *testing.T) {
	path, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	d, name := NewDir(path, "lock"), filepath.Join(path, FileName)
	value := encodeBeat(t, "a", Serving, 1)
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, 1<<40))
	got, err := d.ReadBeat()
	require.NoError(t, err)
	assert.Len(t, got, directLen)
	_, ok := parseBeat(got)
	assert.False(t, ok)
	require.NoError(t, d.WriteBeat(value))
	got, err = d.ReadBeat()
	require.NoError(t, err)
	assert.Equal(t, value, got, "a longer file becomes one")

	for what, create := range map[string]func() error{
		"link":      func() error { return os.Symlink(elsewhere, name) },
		"pipe":      func() error { return unix.Mkfifo(name, 0o600) },
		"directory": func() error { return os.Mkdir(name, 0o700) },
	} {
		require.NoError(t, os.RemoveAll(name))
		require.NoError(t, create())
		_, err = d.ReadBeat()
		assert.Error(t, err, what)
		assert.Error(t, d.WriteBeat(value), what)
		assert.NoFileExists(t, elsewhere)
	}

	for _, bad := range []func(*Beat){
		func(b *Beat) { b.Version = 2 },
		func(b *Beat) { b.State = "other" },
		func(b *Beat) { b.Process = "" },
		func(b *Beat) { b.Host = "--force" },
		func(b *Beat) { b.Host = "a\x1b[2J" },
		func(b *Beat) { b.Address = "-o" },
		func(b *Beat) { b.Address = "fe80::1%-o" },
	} {
		b, _ := parseBeat(value)
		bad(&b)
		text, err := b.encode()
		require.NoError(t, err)
		_, ok := parseBeat(text)
		assert.False(t, ok, "%s", text)
	}
	assert.Equal(t, MaxTenure, (&Beat{Tenure: 1e300}).tenure())
}

// TestLock checks that a directory is locked when all its files are.
func TestLock(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "journal"), nil, 0o600))
	newDir := func() *Dir { return NewDir(path, "lock", "journal") }
	tryLock := func(d *Dir) bool {
		ok, err := d.TryLock()
		require.NoError(t, err)
		return ok
	}
	a, b := newDir(), newDir()
	assert.True(t, tryLock(a))
	assert.True(t, tryLock(a), "it is locked already")
	assert.False(t, tryLock(b))
	a.Unlock()
	journal := NewDir(path, "journal")
	assert.True(t, tryLock(journal))
	assert.False(t, tryLock(b), "the journal is locked")
	journal.Unlock()
	assert.True(t, tryLock(b))
	lock := b.TakeLock()
	defer lock.Close()
	assert.True(t, tryLock(journal), "the journal locks itself")
	journal.Unlock()
	assert.False(t, tryLock(a))
}

// FuzzParseBeat checks that a beat that is accepted is written as it was.
func FuzzParseBeat(f *testing.F) {
	f.Add(encodeBeat(f, "a", Serving, 1))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, value []byte) {
		b, ok := parseBeat(value)
		if !ok {
			return
		}
		again, err := b.encode()
		if err != nil {
			return // longer when escaped
		}
		same, ok := parseBeat(again)
		assert.True(t, ok)
		assert.Equal(t, b, same)
		assert.LessOrEqual(t, b.tenure(), MaxTenure)
		assert.GreaterOrEqual(t, int64(b.tenure()), int64(0))
	})
}
