package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStoreStream checks that the blocks of the measured time are stored, each and
// in order, before they count.
func TestStoreStream(t *testing.T) {
	over := filepath.Join(t.TempDir(), "over")
	require.NoError(t, os.WriteFile(over, make([]byte, 2*blockSize), 0o644))
	near, far := net.Pipe()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for i := 0; ; i++ {
			if _, err := far.Write(bytes.Repeat([]byte{byte(i)}, blockSize)); err != nil {
				return
			}
		}
	}()
	defer func() {
		near.Close()
		<-fed
	}()
	text := captureOutput(t, func() error { return storeStream(near, over, "0s") })
	assert.Regexp(t, `^\n{.*"bytes":1048576,`, text, "a byte at the end of the time, and the result")
	got, err := os.ReadFile(over)
	require.NoError(t, err)
	assert.Equal(t, []byte{pipelineDepth, 0}, []byte{got[0], got[blockSize]}, "the first block after those before the time")
	assert.Equal(t, blockSize, bytes.Count(got, []byte{pipelineDepth}), "all of it")
	require.NoError(t, os.Truncate(over, blockSize-1))
	assert.ErrorContains(t, storeStream(near, over, "0s"), "has no block")
}

// TestStoreStreamWraps checks that a stream longer than the file stays within its length.
func TestStoreStreamWraps(t *testing.T) {
	over := filepath.Join(t.TempDir(), "over")
	require.NoError(t, os.WriteFile(over, make([]byte, blockSize), 0o644))
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, bytes.NewReader(make([]byte, (pipelineDepth+3)*blockSize)))
	}()
	assert.ErrorIs(t, storeStream(near, over, "1h"), io.EOF)
	near.Close()
	info, err := os.Stat(over)
	require.NoError(t, err)
	assert.EqualValues(t, blockSize, info.Size())
}

// captureOutput returns the output of f.
func captureOutput(t *testing.T, f func() error) string {
	t.Helper()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	os.Stdout = w
	err = f()
	w.Close()
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
