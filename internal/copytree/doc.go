// Package copytree copies files and trees from, to and between NFS servers. It
// keeps holes, modes and times, and keeps a tree from a server inside its
// destination. It must not know URLs, how a connection is made, nor the wording
// of errors: the caller names objects and reports errors.
package copytree
