//go:build linux

package filesync

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSyncRounds checks that for any number of waiting callers, one sync of the
// whole file system serves all that came before it began.
func TestSyncRounds(t *testing.T) { synctest.Test(t, testSyncRounds) }

func testSyncRounds(t *testing.T) {
	const many = 5
	var d Disk
	lost := 0
	d.Init(func(error) { lost++ })
	begun, goOn, over := make(chan struct{}, 4*many), make(chan error), make(chan struct{})
	defer close(over)
	d.Syncfs = func(int) error {
		begun <- struct{}{}
		select {
		case err := <-goOn:
			return err
		case <-over:
			return nil
		}
	}
	begins := func() {
		t.Helper()
		receiveSoon(t, begun, "no sync begins")
	}
	end := func(err error) {
		t.Helper()
		select {
		case goOn <- err:
		case <-time.After(10 * time.Second):
			t.Fatal("no sync is under way")
		}
	}
	first, last, late := make(chan error, 1), make(chan error, 1), make(chan error, many)
	go func() { first <- d.SyncAll() }()
	begins()
	for range many {
		go func() { late <- d.SyncAll() }()
	}
	synctest.Wait()
	end(nil)
	require.NoError(t, receiveSoon(t, first, "the sync waits still"))
	begins()
	go func() { last <- d.SyncAll() }()
	synctest.Wait()
	assert.Empty(t, late, "the first sync may have missed their changes")
	end(unix.EIO)
	for range many {
		assert.ErrorIs(t, receiveSoon(t, late, "the sync waits still"), unix.EIO)
	}
	assert.Equal(t, 1, lost)
	begins()
	end(nil)
	assert.ErrorIs(t, receiveSoon(t, last, "the sync waits still"), unix.EIO, "the kernel told only the round before, which may have passed the change")
	assert.Equal(t, 1, lost)
	go func() { first <- d.SyncAll() }()
	begins()
	end(nil)
	require.NoError(t, receiveSoon(t, first, "the sync waits still"))
	assert.Nil(t, d.now)
}

func receiveSoon[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal(what)
	}
	return v
}
