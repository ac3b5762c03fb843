// Command demo shows nfsrdmad at work: it serves a sample directory, boots a
// small virtual machine with an unmodified Linux 6.1 kernel, and mounts the
// directory there over RDMA. It needs no privilege, once the guest is built.
//
//	go run ./interop/demo bin/nfsrdmad
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/interop"
)

const (
	largeMiB  = 32              // of the file that is copied
	bootLimit = 2 * time.Minute // on a machine that does much else
	stopLimit = 15 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demo PATH/TO/nfsrdmad")
	}
	began := time.Now()
	dir, err := os.MkdirTemp("", "nfsrdma-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	served := filepath.Join(dir, "sample")
	if err := sample(served); err != nil {
		return err
	}

	heading("nfsrdmad serves a sample directory, as %s", user())
	d, err := serve(args[0], served, filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	defer d.proc.Kill()

	heading("Linux boots in a virtual machine")
	g, err := boot(ctx)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := work(ctx, g, d); err != nil {
		return err
	}
	if err := d.stop(); err != nil {
		return err
	}
	heading("Done in %.0f s", time.Since(began).Seconds())
	return nil
}

func heading(format string, a ...any) { fmt.Printf("\n== "+format+"\n", a...) }

func user() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "an ordinary user"
}

// sample makes what is served.
func sample(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	// The guest's root is nobody here, and may write all the same.
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("Hello from user space.\n"), 0o644); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "large.bin"), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), largeMiB<<20)
	return errors.Join(err, f.Close())
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// daemon is a running nfsrdmad.
type daemon struct {
	proc      *interop.Process
	served    string // directory
	rdma, tcp string // ports
}

var readyLine = regexp.MustCompile(`^ready rdma=\S+:(\d+) tcp=\S+:(\d+) `)

func serve(program, dir, state string) (*daemon, error) {
	out, err := os.CreateTemp(filepath.Dir(state), "ready-")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0",
		"--state", state, dir+"=/demo")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	fmt.Println("$", strings.Join(cmd.Args, " "))
	proc, err := interop.StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	for {
		line, err := os.ReadFile(out.Name())
		if m := readyLine.FindSubmatch(line); m != nil {
			fmt.Printf("%s", line)
			return &daemon{proc: proc, served: dir, rdma: string(m[1]), tcp: string(m[2])}, nil
		}
		select {
		case <-proc.Done():
			return nil, errors.Join(fmt.Errorf("nfsrdmad ended with status %d", proc.ExitCode()), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the daemon in good order.
func (d *daemon) stop() error {
	heading("nfsrdmad drains and ends")
	d.proc.Signal(unix.SIGTERM)
	select {
	case <-d.proc.Done():
	case <-time.After(stopLimit):
		return fmt.Errorf("nfsrdmad still runs %v after SIGTERM", stopLimit)
	}
	if status := d.proc.ExitCode(); status != 0 {
		return fmt.Errorf("nfsrdmad ended with status %d", status)
	}
	fmt.Println("exit status 0")
	return nil
}

func boot(ctx context.Context) (*interop.Guest, error) {
	build := exec.CommandContext(ctx, "interop/guest/build")
	build.Stderr = os.Stderr
	dir, err := build.Output()
	if err != nil {
		return nil, fmt.Errorf("interop/guest/build: %w", err)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, bootLimit, fmt.Errorf("not booted after %v", bootLimit))
	defer cancel()
	g, err := interop.Boot(ctx, interop.Options{Dir: strings.TrimSpace(string(dir))})
	if err == nil {
		fmt.Printf("ready after %.1f s (emulated: no hardware virtualization is used)\n", time.Since(start).Seconds())
	}
	return g, err
}

// work does in the guest what a person would.
func work(ctx context.Context, g *interop.Guest, d *daemon) error {
	heading("Linux mounts it over RDMA (siw, the kernel's software iWARP)")
	for _, script := range []string{
		"uname -sr; rdma link show siw0/1",
		fmt.Sprintf("mount -t nfs -o vers=3,proto=rdma,port=%s,mountproto=tcp,mountport=%s,nolock 10.0.2.2:/demo /mnt", d.rdma, d.tcp),
		"grep /mnt /proc/mounts",
		"ls -l /mnt",
		"cat /mnt/hello.txt",
		"echo 'Hello from the kernel.' >/mnt/reply.txt; cat /mnt/reply.txt",
	} {
		if _, err := shell(ctx, g, script); err != nil {
			return err
		}
	}
	if err := copies(ctx, g, d); err != nil {
		return err
	}
	for _, script := range []string{
		`awk '/xprt:/ {print $14 " READs by RDMA Write, " $13 " WRITEs by RDMA Read"}' /proc/self/mountstats`,
		"umount /mnt",
	} {
		if _, err := shell(ctx, g, script); err != nil {
			return err
		}
	}
	return nil
}

// copies takes the large file to the guest and back, and compares.
func copies(ctx context.Context, g *interop.Guest, d *daemon) error {
	for _, script := range []string{
		"cp /mnt/large.bin /tmp/",
		"dd if=/tmp/large.bin of=/mnt/copy.bin bs=1M conv=fsync",
	} {
		start := time.Now()
		if _, err := shell(ctx, g, script); err != nil {
			return err
		}
		t := time.Since(start).Seconds()
		fmt.Printf("%d MiB in %.2f s, %.0f MBps, client emulated\n", largeMiB, t, float64(largeMiB<<20)/1e6/t)
	}
	out, err := shell(ctx, g, "sha256sum /tmp/large.bin")
	if err != nil {
		return err
	}
	there, _, _ := strings.Cut(out, " ")
	for _, name := range []string{"large.bin", "copy.bin"} {
		here, err := digest(filepath.Join(d.served, name))
		if err != nil {
			return err
		}
		if here != there {
			return fmt.Errorf("%s has the sum %s at the server", name, here)
		}
		fmt.Printf("%s  %s at the server: equal\n", here, name)
	}
	return nil
}

// shell shows a script run in the guest.
func shell(ctx context.Context, g *interop.Guest, script string) (string, error) {
	fmt.Println("guest#", script)
	out, status, err := g.Exec(ctx, script)
	fmt.Print(out)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d of %q in the guest", status, script)
	}
	return out, err
}
