package main

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTCPFile checks that a file over TCP reads the server's content, and that
// written data are at the server after fsync.
func TestTCPFile(t *testing.T) {
	over := filepath.Join(t.TempDir(), "over")
	require.NoError(t, os.WriteFile(over, nil, 0o644))
	l, err := listenReno()
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				var a request
				if binary.Read(c, binary.BigEndian, &a) == nil {
					serveRequest(c, &a, []byte("0123456789"), over)
				}
			}()
		}
	}()
	f := &tcpFile{addr: l.Addr().String()}
	into := make([]byte, 3)
	for range 2 { // the second on the first one's connection
		res, errno := f.Read(t.Context(), nil, into, 4)
		require.Zero(t, errno)
		assert.Equal(t, 3, res.Size())
		assert.Equal(t, "456", string(into))
	}
	assert.Len(t, f.readConns, 1)
	for off, word := range []string{"ab", "cd"} {
		n, errno := f.Write(t.Context(), nil, []byte(word), int64(off))
		require.Zero(t, errno)
		assert.EqualValues(t, 2, n)
	}
	require.Zero(t, f.Fsync(t.Context(), nil, 0))
	got, err := os.ReadFile(over)
	require.NoError(t, err)
	assert.Equal(t, "acd", string(got))

	_, err = f.writeConn.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, fileSize), 1))
	require.NoError(t, err)
	_, err = f.writeConn.Read(into)
	assert.ErrorIs(t, err, io.EOF, "a span behind the end of the file")
	f.readConns[0].close()
	f.writeConn.close()
}
