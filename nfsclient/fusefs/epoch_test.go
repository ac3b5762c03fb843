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
	told := []uint64{m.nextTick(), m.nextTick()}
	assert.True(t, m.advanceEpoch(told[0], m.nextTick()))
	first := m.epoch.began
	assert.Greater(t, first, told[1])
	assert.True(t, m.advanceEpoch(told[1], m.nextTick()))
	assert.Equal(t, first, m.epoch.began)
	assert.True(t, m.advanceEpoch(m.nextTick(), m.nextTick()))
	assert.Greater(t, m.epoch.began, first)
}

// TestEpochBarred has several callers wait for names because something is
// mounted, and checks that the mount tables are read once.
func TestEpochBarred(t *testing.T) {
	_, m := newMount(t)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(m.dir, &st))
	m.dev.Store(st.Dev)
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	require.NoError(t, unix.Mount(t.TempDir(), m.path("d"), "", unix.MS_BIND, ""))
	defer func() { assert.NoError(t, unix.Unmount(m.path("d"), unix.MNT_DETACH)) }()
	told, asked := m.nextTick(), m.nextTick()
	assert.False(t, m.advanceEpoch(told, asked))
	looked := m.epoch.refused
	assert.False(t, m.advanceEpoch(told, asked))
	assert.Equal(t, looked, m.epoch.refused)
	assert.False(t, m.advanceEpoch(told, m.nextTick()))
	assert.Greater(t, m.epoch.refused, looked)
	assert.Zero(t, m.epoch.began)
}
