// Command demo serves a directory with nfsrdmad and mounts it from real Linux
// over RDMA, in the interop tests' small virtual machine.
//
//	go run ./interop/demo bin/nfsrdmad
//
// The command must run in the repository's top directory.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/interop"
)

const limit = 5 * time.Minute // for everything, once the guest is built

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo NFSRDMAD")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runDemo(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func runDemo(ctx context.Context, nfsrdmad string) error {
	guestDir, err := interop.BuildGuest(ctx, "interop/guest/build")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	dir, err := makeSample()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := []string{"--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--state", filepath.Join(dir, "state")}
	args = append(args, filepath.Join(dir, "files")+"=/files")
	fmt.Printf("host$ %s serve %s\n", nfsrdmad, strings.Join(args, " "))
	server, err := interop.StartServer(os.Stderr, nfsrdmad, args...)
	if err != nil {
		return err
	}
	defer server.Kill()
	fmt.Printf("ready rdma=%s tcp=%s\n", server.RDMA, server.TCP)

	fmt.Println("booting Linux in a virtual machine")
	g, err := interop.Boot(ctx, interop.Options{Dir: guestDir})
	if err != nil {
		return err
	}
	defer g.Close()
	return showCommands(ctx, g, server)
}

// makeSample makes a directory with a few files to serve.
func makeSample() (string, error) {
	dir, err := os.MkdirTemp("", "nfsrdma-demo-")
	if err != nil {
		return "", err
	}
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o777); err != nil {
		return "", err
	}
	// Independent of the umask: the guest's root is the user nobody here.
	if err := os.Chmod(files, 0o777); err != nil {
		return "", err
	}
	text := "This file came over RDMA, without a kernel module on the server.\n"
	return dir, os.WriteFile(filepath.Join(files, "hello.txt"), []byte(text), 0o644)
}

// showCommands runs commands in the guest and prints their output.
func showCommands(ctx context.Context, g *interop.Guest, s *interop.Server) error {
	_, rdma, err := net.SplitHostPort(s.RDMA)
	if err != nil {
		return err
	}
	for _, command := range []string{
		"uname -sr; rdma link",
		"mount -t nfs -o rdma,port=" + rdma + " 10.0.2.2:/files /mnt",
		"grep ' /mnt ' /proc/mounts",
		"cat /mnt/hello.txt",
		"dd if=/dev/urandom of=/mnt/random bs=1M count=32 conv=fsync",
		"sync; echo 3 >/proc/sys/vm/drop_caches; dd if=/mnt/random of=/dev/null bs=1M",
		"ls -l /mnt; df -h /mnt",
		"umount /mnt",
	} {
		fmt.Printf("guest# %s\n", command)
		out, status, err := g.Exec(ctx, command)
		fmt.Print(out)
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("exit status %d", status)
		}
	}
	return nil
}
