package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// readBundle returns the files of a bundle.
func readBundle(t *testing.T, name string) map[string]string {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := make(map[string]string)
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[strings.TrimPrefix(h.Name, "nfsrdma-doctor/")] = string(text)
	}
}

// writeText writes a file of a test, and returns its path.
func writeText(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestBundleSecrets checks that no secret reaches a bundle, wherever it is written, and that what a
// diagnosis needs does. Each secret has the word hunter in it.
func TestBundleSecrets(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter-env")
	t.Setenv("KRB5CCNAME", "FILE:/tmp/krb5cc_0")
	const pem = "-----BEGIN PRIVATE KEY-----\nhunterMIG\nhunter2\n-----END PRIVATE KEY-----\n"
	long := strings.Repeat("deadbeef", 8)
	for _, tt := range []struct {
		name string
		file BundleFile
		keep []string // must remain
	}{
		{
			"exports", SettingsFile(writeText(t, "exports", "# root's hunter\n/srv/a  10.0.0.0/8(rw,sec=krb5p) # hunter\n  # hunter \\\n/srv/b *(ro)\n/srv/c \\\n  *(ro) # hunter\n"), "", SettingsText),
			[]string{"/srv/a  10.0.0.0/8(rw,sec=krb5p)", "/srv/c  *(ro)"},
		},
		{
			"flags", SettingsFile(writeText(t, "default", "#NFSRDMAD_X=\"hunter\"\nNFSRDMAD_FLAGS=\"--trace https://user:hunter@collector:4318 --ro\"\nOTEL_HEADERS=\"x=hunter\"\nexport AWS_KEY=hunter\nNFSRDMAD_TLS=\"--tls-key /etc/nfsrdma/tls/server.key\"\nNFSRDMAD_LOG=\"--auth-token hunter --x\"\n"), "", EnvText),
			[]string{"https://[removed]@collector:4318 --ro", "OTEL_HEADERS=[removed]", "--tls-key /etc/nfsrdma/tls/server.key", "--auth-token [removed]"},
		},
		{
			"conf", SettingsFile(writeText(t, "nfsrdmad.conf", "[nfsd]\nvers4.2=y ; hunter\npassword = hunter\n; hunter\nmetrics-token: hunter hunter\ntcp=:3049\n"+pem), "", SettingsText),
			[]string{"[nfsd]\nvers4.2=y", "tcp=:3049", "password = [removed]"},
		},
		{
			"unit", SettingsFile(writeText(t, "unit", "[Service]\nEnvironment=GOGC=50\nEnvironment=\"A=hunter\" B=hunter\nSetCredential=k:hunter\nExecStart=/usr/sbin/nfsrdmad serve --tcp :3049 \\\n  --ro\n"), "", SettingsText),
			[]string{"Environment=GOGC=50", "Environment= A=[removed] B=[removed]", "ExecStart=/usr/sbin/nfsrdmad serve --tcp :3049  --ro"},
		},
		{"log", BundleFile{Read: func(context.Context) ([]byte, error) {
			return []byte("a client: Authorization: Bearer hunter\nmount refused: 10.9.0.1 is not in 192.0.2.0/24 of /private\n" + pem + "the ticket " + long + "\nGET http://x:hunter@h/\ncookie=hunter\ncommit " + long[:40] + "\n"), nil
		}}, []string{"mount refused: 10.9.0.1 is not in 192.0.2.0/24 of /private", "the ticket [removed]", "commit " + long[:40]}},
		{"end of a log", BundleFile{Read: func(context.Context) ([]byte, error) {
			key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("hunter/", 9)+"\n", 2) + "-----END PRIVATE KEY-----\n"
			return []byte(key + strings.Repeat("some line\n", (maxBundleFile-50)/10)), nil
		}}, []string{"[removed]\nsome line\n"}},
		{
			"broken lines", SettingsFile(writeText(t, "unit", "Environment=A=x \\\n# about B\n  B=hunter\nExecStart=/x\n"), "", SettingsText),
			[]string{"Environment= A=[removed] B=[removed]\nExecStart=/x"},
		},
		{
			"quoted lines", SettingsFile(writeText(t, "default", "OTEL_HEADERS=\"a\nhunter\nb\"\nGOGC=50\n"), "", EnvText),
			[]string{"OTEL_HEADERS=[removed]\n[removed]\n[removed]\nGOGC=50"},
		},
		{"URLs", BundleFile{Read: func(context.Context) ([]byte, error) {
			return []byte("https://u:p@hunter@h/x\nhttps://u:p/hunter@h:1/x\n"), nil
		}}, []string{"https://[removed]@h/x\nhttps://[removed]@h:1/x"}},
		{"host", HostFile("nfsrdmad 1.2.3"), []string{"nfsrdmad 1.2.3", "Linux ", "MemTotal", "KRB5CCNAME=FILE:/tmp/krb5cc_0", "Max open files"}},
		{"program", CommandFile("", "", PlainText, "sh", "-c", "echo password=hunter; echo failed >&2; exit 1"), []string{"password=[removed]", "failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.file.Name = "file"
			r := Report{Bundle: filepath.Join(t.TempDir(), "b.tar.gz"), Out: new(bytes.Buffer)}
			require.NoError(t, r.Run(t.Context(), func(context.Context) []Finding { return nil }, func() []BundleFile { return []BundleFile{tt.file} }))
			text := readBundle(t, r.Bundle)["file"]
			assert.NotContains(t, text, "hunter")
			assert.NotContains(t, text, "deadbeefdeadbeefdeadbeefdeadbeefdeadbeefdeadbeef")
			for _, want := range tt.keep {
				assert.Contains(t, text, want)
			}
		})
	}
}

// TestBundle checks that a bundle is a new file, only for its owner, whose content the command
// lists, and that a part that cannot be read costs no other.
func TestBundle(t *testing.T) {
	var out, errs bytes.Buffer
	r := Report{Bundle: filepath.Join(t.TempDir(), "b.tar.gz"), Out: &out, Err: &errs, now: func() time.Time { return time.Unix(1e9, 0) }}
	examine := func(context.Context) []Finding { return []Finding{{"disk", Fail, "the disk is full", "remove files"}} }
	long := func(context.Context) ([]byte, error) { return []byte(strings.Repeat("some line\n", 1<<20)), nil }
	files := func() []BundleFile {
		return []BundleFile{
			SettingsFile("/nonexistent/exports", "exports", SettingsText),
			{Name: "log", About: "the log", Read: long},
			CommandFile("none", "a program", PlainText, "/nonexistent/program"), SettingsFile("/dev/zero", "endless", PlainText),
		}
	}
	assert.ErrorIs(t, r.Run(t.Context(), examine, files), cli.ErrReported)
	assert.Contains(t, out.String(), "fail  the disk is full: remove files\n\n"+r.Bundle+" contains:\n")
	assert.Regexp(t, `doctor.txt +\d+ bytes +these findings\n +nonexistent/exports +\d+ bytes +exports \(not available\)\n +log +\d+ bytes +the log\n`, out.String())
	info, err := os.Stat(r.Bundle)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	got := readBundle(t, r.Bundle)
	assert.Equal(t, "fail  the disk is full: remove files\n", got["doctor.txt"])
	assert.Equal(t, "not available: open /nonexistent/exports: no such file or directory\n", got["nonexistent/exports"])
	assert.LessOrEqual(t, len(got["log"]), maxBundleFile)
	assert.True(t, strings.HasPrefix(got["log"], "some line\n"), "whole lines")
	assert.Contains(t, got["none"], "not available: ")
	assert.Equal(t, "not available: /dev/zero is not a regular file\n", got["dev/zero"])

	before, err := os.ReadFile(r.Bundle)
	require.NoError(t, err)
	assert.EqualError(t, r.Run(t.Context(), examine, files), r.Bundle+" exists already: remove it, or give --bundle another name")
	after, err := os.ReadFile(r.Bundle)
	require.NoError(t, err)
	assert.Equal(t, before, after)

	out.Reset()
	r.JSON, r.Bundle = true, filepath.Join(t.TempDir(), "b.tar.gz")
	short := func() []BundleFile { return files()[:1] }
	assert.ErrorIs(t, r.Run(t.Context(), examine, short), cli.ErrReported)
	assert.True(t, json.Valid(out.Bytes()), "standard output is the list of findings only")
	assert.Contains(t, errs.String(), r.Bundle+" contains:\n")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	r.Bundle = filepath.Join(t.TempDir(), "b.tar.gz")
	assert.EqualError(t, r.Run(ctx, examine, files), r.Bundle+" was not written: interrupt signal received")
	assert.NoFileExists(t, r.Bundle)
}

// FuzzRedact checks that no text makes redact fail, or lets a password through.
func FuzzRedact(f *testing.F) {
	f.Add("a", "b\n")
	f.Add("x=\\\n", "# c\n-----BEGIN A")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, kind := range []TextKind{PlainText, SettingsText, EnvText} {
			assert.NotContains(t, string(redact(kind, []byte(before+"\npassword=hunter2\n"+after))), "hunter2")
		}
	})
}
