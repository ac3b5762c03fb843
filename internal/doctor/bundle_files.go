package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// commandTime is the time limit for a program whose output a bundle contains.
const commandTime = 10 * time.Second

// HostFile describes the host and the program: version is the program's line of --version.
func HostFile(version string) BundleFile {
	return BundleFile{Name: "host.txt", About: "versions, kernel, processors, memory, and the environment by an allow list", Read: func(context.Context) ([]byte, error) {
		var b bytes.Buffer
		var name unix.Utsname
		if err := unix.Uname(&name); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s\n%s %s %s %s\n%d processors\n\n", version, unix.ByteSliceToString(name.Sysname[:]),
			unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Version[:]), unix.ByteSliceToString(name.Machine[:]), runtime.NumCPU())
		for _, file := range []string{"/etc/os-release", "/proc/meminfo", "/proc/uptime", "/proc/loadavg", "/proc/self/limits"} {
			text, err := readSettings(file)
			if err != nil {
				text = []byte(err.Error() + "\n")
			}
			fmt.Fprintf(&b, "== %s\n%s\n", file, text)
		}
		b.WriteString("== environment\n")
		for _, v := range os.Environ() {
			if name, _, _ := strings.Cut(v, "="); isAllowedVariable(name) {
				fmt.Fprintln(&b, v)
			}
		}
		return b.Bytes(), nil
	}}
}

// SettingsFile is a file of settings. Its comments are left out.
func SettingsFile(path, about string, kind TextKind) BundleFile {
	return BundleFile{Name: strings.TrimPrefix(path, "/"), About: about, Kind: kind, Read: func(context.Context) ([]byte, error) { return readSettings(path) }}
}

// readSettings reads a regular file of limited size.
func readSettings(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // does not wait for a FIFO's writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	return io.ReadAll(io.LimitReader(f, maxBundleFile))
}

// CommandFile is the output of a program, standard error included.
func CommandFile(name, about string, kind TextKind, command ...string) BundleFile {
	return BundleFile{Name: name, About: about, Kind: kind, Read: func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, commandTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.WaitDelay = time.Second
		var out tailBuffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if len(out.tail) > 0 {
			return out.tail, nil
		}
		return nil, err
	}}
}

// JournalFile has the latest lines of the journal that match.
func JournalFile(about string, matches ...string) BundleFile {
	return CommandFile("journal.txt", about, PlainText, append([]string{"journalctl", "--no-pager", "--quiet", "-o", "short-iso", "-n", "5000"}, matches...)...)
}

// A tailBuffer keeps at least the last maxBundleFile bytes written to it.
type tailBuffer struct{ tail []byte }

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.tail = append(b.tail, p...)
	if len(b.tail) > 3*maxBundleFile {
		b.tail = append([]byte(nil), b.tail[len(b.tail)-2*maxBundleFile:]...)
	}
	return len(p), nil
}
