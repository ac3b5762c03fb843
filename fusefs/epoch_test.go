package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestEpochOnce drops names that were told at several times, and checks that
// those told before a notification need no other.
func TestEpochOnce(t *testing.T) {
	_, m := newMount(t)
	told := []uint64{m.tick(), m.tick()}
	assert.True(t, m.nextEpoch(told[0], m.tick()))
	first := m.epoch.began
	assert.Greater(t, first, told[1])
	assert.True(t, m.nextEpoch(told[1], m.tick()))
	assert.Equal(t, first, m.epoch.began)
	assert.True(t, m.nextEpoch(m.tick(), m.tick()))
	assert.Greater(t, m.epoch.began, first)
}

// TestEpochBarred has several callers wait for names because something is
// mounted, and checks that the mount tables are read once.
func TestEpochBarred(t *testing.T) {
	_, m := newMount(t)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(m.dir, &st))
	m.dev.Store(st.Dev)
	require.NoError(t, os.Mkdir(m.file("d"), 0o755))
	require.NoError(t, unix.Mount(t.TempDir(), m.file("d"), "", unix.MS_BIND, ""))
	defer func() { assert.NoError(t, unix.Unmount(m.file("d"), unix.MNT_DETACH)) }()
	told, asked := m.tick(), m.tick()
	assert.False(t, m.nextEpoch(told, asked))
	looked := m.epoch.barred
	assert.False(t, m.nextEpoch(told, asked))
	assert.Equal(t, looked, m.epoch.barred)
	assert.False(t, m.nextEpoch(told, m.tick()))
	assert.Greater(t, m.epoch.barred, looked)
	assert.Zero(t, m.epoch.began)
}
