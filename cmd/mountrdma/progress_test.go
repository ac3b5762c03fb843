package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// openTerminal returns a terminal, and a function that closes it and returns the
// bytes written to it.
func openTerminal(t *testing.T) (tty *os.File, written func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	all := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with EIO
		all <- string(b)
	}()
	return tty, func() string {
		tty.Close()
		defer master.Close()
		return <-all
	}
}

func TestProgress(t *testing.T) {
	r := newTestServer(t)
	dir := t.TempDir()
	writeFile(t, randomBytes(4<<20, 1), dir, "t", "big")
	writeFile(t, nil, dir, "t", "empty")
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "t", "fifo"), 0o600))

	tty, written := openTerminal(t)
	status := run(t.Context(), []string{"cp", "-r", dir + "/t", r.url}, io.Discard, tty)
	got := written()
	assert.Equal(t, cli.ExitError, status)
	assert.Contains(t, got, " files ")
	assert.Contains(t, got, "not copied: not a file, directory or symbolic link\r\n")

	tty, written = openTerminal(t)
	status = run(t.Context(), []string{"cp", "-r", dir + "/t", r.url, "--exclude=fifo"}, io.Discard, tty)
	got = written()
	assert.Equal(t, cli.ExitOK, status)
	assert.Regexp(t, `2/2 files +100%.*\r?\n2 files, 4\.0 MiB in [^,]*s, [^,]*iB/s\r\n$`, got, "it ends complete, and with a summary")

	tty, written = openTerminal(t)
	status = run(t.Context(), []string{"cp", "-q", dir + "/t/big", r.url}, io.Discard, tty)
	assert.Equal(t, cli.ExitOK, status)
	assert.Empty(t, written(), "quiet")

	mustRun(t, "cp", dir+"/t/big", r.url) // prints nothing without a terminal
}
