package nfsrdma_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"

	"github.com/nfsrdma/nfsrdma"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// Serve a directory, and read a file from it over RDMA.
func Example() {
	data, err := os.MkdirTemp("", "data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	if err := os.Chmod(data, 0o755); err != nil { // also for user nobody, to which root is mapped
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "hello.txt"), []byte("Hello over RDMA.\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	dir, err := posix.Open(data, posix.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{Exports: []nfsserver.Export{{Path: "/data", FS: dir}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0") // usually ":20049"
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeRDMA(l)

	ctx := context.Background()
	client, err := nfsrdma.Dial(ctx, l.Addr().String(), nfsrdma.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fsys, err := client.Mount(ctx, "/data")
	if err != nil {
		log.Fatal(err)
	}
	file, err := fsys.Open(ctx, "hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := file.CopyTo(ctx, os.Stdout, 0); err != nil {
		log.Fatal(err)
	}
	// Output: Hello over RDMA.
}

// Serve a go-billy file system, and list it over RDMA.
func ExampleServer_billy() {
	memory := memfs.New()
	for _, name := range []string{"apples", "pears"} {
		if err := util.WriteFile(memory, name, []byte("from memory"), 0o644); err != nil {
			log.Fatal(err)
		}
	}

	fs, err := billy.New(memory, billy.Options{Volatile: true}) // a file in memory needs no Sync
	if err != nil {
		log.Fatal(err)
	}
	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{Exports: []nfsserver.Export{{Path: "/fruit", FS: fs}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.ServeRDMA(l)

	ctx := context.Background()
	client, err := nfsrdma.Dial(ctx, l.Addr().String(), nfsrdma.ClientConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fsys, err := client.Mount(ctx, "/fruit")
	if err != nil {
		log.Fatal(err)
	}
	for entry, err := range fsys.ReadDir(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(entry.Name)
	}
	// Unordered output:
	// apples
	// pears
}

// Serve a directory at the usual ports.
func ExampleServer_ListenAndServe() {
	dir, err := posix.Open("/srv/data", posix.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server, err := nfsrdma.NewServer(nfsrdma.ServerConfig{
		Exports: []nfsserver.Export{{Path: "/data", FS: dir}},
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ListenAndServe(":20049", ":2049")) // RDMA and TCP
}
