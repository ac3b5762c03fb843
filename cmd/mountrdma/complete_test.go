package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestComplete requests completions in the way the shells' scripts do.
func TestComplete(t *testing.T) {
	r := newTestServer(t)
	require.NoError(t, os.Mkdir(filepath.Join(r.dir, "photos"), 0o755))
	writeFile(t, nil, r.dir, "plan 1")
	words := func(args ...string) []string {
		status, stdout, _ := runCommand(t, append([]string{"__complete"}, args...)...) // standard error is for users
		assert.Equal(t, 0, status, args)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		return lines[:len(lines)-1] // the last says what the shell does with them
	}
	url := func(path string) string { return scheme + r.addr + path }

	assert.Equal(t, []string{url("/x/")}, words("ls", url("/")))
	assert.ElementsMatch(t, []string{url("/x/photos/"), url("/x/plan%201")}, words("ls", url("/x/p")))
	assert.Equal(t, []string{url("/x/photos/")}, words("cp", "file", url("/x/ph")))
	assert.Empty(t, words("cp", "fi"), "the shell completes files")
	assert.Equal(t, []string{"auto", "on", "off"}, words("ls", "--crc", ""))

	assert.Equal(t, []string{"proto=rdma", "proto=rdma6", "proto=tcp", "proto=tcp6"}, words("-o", "proto="))
	assert.Equal(t, []string{"ro,sec=sys", "ro,sec=krb5", "ro,sec=krb5i", "ro,sec=krb5p"}, words("-o", "ro,sec="))
	assert.Equal(t, []string{"sys", "krb5", "krb5i", "krb5p"}, words("ls", "--sec", ""))
	assert.Equal(t, []string{"ro,timeo="}, words("-o", "ro,tim"))
	assert.Empty(t, words("-o", "v4"), "refused")
	assert.Equal(t, []string{url("/x/")}, words(url("/")), "a mount")
	host, port, err := net.SplitHostPort(r.addr)
	require.NoError(t, err)
	assert.Equal(t, []string{host + ":/x"}, words("-o", "ro,port="+port, host+":/"), "at the port of the options")
	assert.Contains(t, words("um"), "umount\tUnmount a file system that mountrdma has mounted")

	// Neither a dead server nor a wrong word prints anything.
	r.stop()
	assert.Empty(t, words("ls", url("/x/")))
	assert.Empty(t, words("ls", "nfs://[/"))
}
