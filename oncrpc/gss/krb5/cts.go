package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"sync"
)

const blockSize = aes.BlockSize

var zeroIV [blockSize]byte

// A ctsKey encrypts or decrypts in place, with AES in CBC mode with ciphertext stealing
// and a zero initial vector (RFC 3962, Section 5): the last two blocks are swapped, and
// the ciphertext is as long as the plaintext. Texts are scattered, and have at least one
// block.
type ctsKey struct {
	block  cipher.Block
	create func(cipher.Block, []byte) cipher.BlockMode
	chains sync.Pool // contains *cbcChain
}

// A cbcChain is a pooled CBC mode, with space for blocks that span slices.
type cbcChain struct {
	mode interface {
		cipher.BlockMode
		SetIV(iv []byte)
	}
	seam [blockSize]byte
	tail [3 * blockSize]byte
}

func (k *ctsKey) init(key []byte, create func(cipher.Block, []byte) cipher.BlockMode) {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // derived keys have a valid AES length
	}
	k.block, k.create = block, create
}

// getChain returns a pooled chain whose initial vector is zero.
func (k *ctsKey) getChain() *cbcChain {
	c, ok := k.chains.Get().(*cbcChain)
	if !ok {
		c = new(cbcChain)
		c.mode = k.create(k.block, zeroIV[:]).(interface {
			cipher.BlockMode
			SetIV(iv []byte)
		})
		return c
	}
	c.mode.SetIV(zeroIV[:])
	return c
}

// cryptBlocks encrypts or decrypts the n bytes at at; n is a multiple of the block size.
// It processes blocks within a slice in one call, and a block that spans slices in a
// copy.
func (c *cbcChain) cryptBlocks(at *cursor, n int) {
	for n > 0 {
		s := at.peekRun(n)
		if whole := len(s) &^ (blockSize - 1); whole > 0 {
			c.mode.CryptBlocks(s[:whole], s[:whole])
			at.off += whole
			n -= whole
			continue
		}
		start := *at
		at.gather(c.seam[:])
		c.mode.CryptBlocks(c.seam[:], c.seam[:])
		start.scatter(c.seam[:])
		n -= blockSize
	}
}

// splitLengths returns the lengths of the plain CBC part, and of the part after its last
// whole block, which is the stolen one: 1 to blockSize bytes, or 0 if the text has a
// single block.
func splitLengths(size int) (head, last int) {
	if size == blockSize {
		return 0, 0
	}
	last = (size-1)%blockSize + 1
	return size - last - blockSize, last
}

func (k *ctsKey) encrypt(text [][]byte) {
	head, last := splitLengths(totalLength(text))
	c := k.getChain()
	at := cursor{rest: text}
	c.cryptBlocks(&at, head)
	tail, end := c.tail[:blockSize+last], at
	at.gather(tail)
	if last > 0 {
		clear(c.tail[len(tail) : 2*blockSize])
		two := c.tail[:2*blockSize]
		c.mode.CryptBlocks(two, two)
		copy(c.tail[2*blockSize:], two[:blockSize])
		copy(two, two[blockSize:])
		copy(two[blockSize:], c.tail[2*blockSize:])
	} else {
		c.mode.CryptBlocks(tail, tail)
	}
	end.scatter(tail)
	k.chains.Put(c)
}

func (k *ctsKey) decrypt(text [][]byte) {
	head, last := splitLengths(totalLength(text))
	c := k.getChain()
	at := cursor{rest: text}
	c.cryptBlocks(&at, head)
	tail, end := c.tail[:blockSize+last], at
	at.gather(tail)
	if last > 0 {
		// The tail's first block was encrypted last, from the last bytes and zeros,
		// chained to the block whose beginning follows it.
		plain, stolen := c.tail[:blockSize], c.tail[blockSize:2*blockSize]
		k.block.Decrypt(plain, plain)
		copy(stolen[last:], plain[last:])
		subtle.XORBytes(plain, plain, stolen)
		c.mode.CryptBlocks(stolen, stolen)
		copy(c.tail[2*blockSize:], plain)
		copy(c.tail[:], stolen)
		copy(c.tail[blockSize:], c.tail[2*blockSize:])
	} else {
		c.mode.CryptBlocks(tail, tail)
	}
	end.scatter(tail)
	clear(c.tail[:])
	clear(c.seam[:])
	k.chains.Put(c)
}
