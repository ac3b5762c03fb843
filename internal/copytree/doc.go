// Package copytree copies files and trees from, to and between NFS servers. It
// keeps holes, modes and times, and confines a tree from a server to its
// destination. It must not depend on URLs, on how a connection is made, nor on the
// wording of errors: the caller names objects and reports errors.
package copytree
