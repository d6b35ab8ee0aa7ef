package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"time"
)

// conn is one connection that sends the same request again and again.
type conn struct {
	net.Conn
	number  int
	in      *bufio.Reader
	request []byte
	user    []byte          // the part of request that names the user; empty if none is named
	late    []time.Duration // of the last answer's pieces, beside the first, where the pace is known
}

// patience is how long an answer may take.
const patience = 60 * time.Second

// unnamed stands in a request where its user's name will be.
const unnamed = "u00000000"

// dial opens connection number for p's request.
func (p *plan) dial(number int) (*conn, error) {
	c, err := net.DialTimeout("tcp", p.target.Host, 10*time.Second)
	if err != nil {
		return nil, err
	}
	key := p.key
	if p.keys > 0 {
		key = fmt.Sprintf("%s-%02d", key, number%p.keys)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json\r\n",
		p.target.RequestURI(), p.target.Host, key)
	var from int
	if p.users > 0 {
		b.WriteString("X-LLMGW-User: ")
		from = b.Len()
		b.WriteString(unnamed + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(p.body))
	b.Write(p.body)
	opened := &conn{Conn: c, number: number, in: bufio.NewReaderSize(c, 4<<10), request: b.Bytes()}
	if from > 0 {
		opened.user = opened.request[from : from+len(unnamed)]
	}
	return opened, nil
}

// nextUser writes the next user's name into the request.
func (c *conn) nextUser(p *plan) {
	n := p.named.Add(1) % p.users
	for i := len(c.user) - 1; i > 0; i-- {
		c.user[i] = byte('0' + n%10)
		n /= 10
	}
}

// answer is what was read of one.
type answer struct {
	status int
	pieces int           // chunks of the transfer encoding
	first  time.Duration // until the first byte of the body
}

// roundTrip sends the request and reads the answer to its end.
func (c *conn) roundTrip(p *plan) (answer, error) {
	if len(c.user) > 0 {
		c.nextUser(p)
	}
	c.late = c.late[:0]
	began := time.Now()
	a, length, err := c.begin(began)
	if err != nil {
		return a, err
	}
	if length >= 0 {
		_, err = c.in.Discard(length)
		a.first = time.Since(began)
		return a, err
	}
	for {
		n, err := c.piece()
		if err != nil || n == 0 {
			return a, err
		}
		if a.pieces++; a.pieces == 1 {
			a.first = time.Since(began)
		} else if p.every > 0 {
			c.late = append(c.late, time.Since(began)-a.first-time.Duration(a.pieces-1)*p.every)
		}
	}
}

// begin sends the request and reads the head of the answer. The length is -1
// if the body is chunked.
func (c *conn) begin(began time.Time) (a answer, length int, err error) {
	if err := c.SetDeadline(began.Add(patience)); err != nil {
		return a, 0, err
	}
	if _, err := c.Write(c.request); err != nil {
		return a, 0, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return a, 0, err
	}
	if len(line) < 12 {
		return a, 0, fmt.Errorf("status line %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, 0, fmt.Errorf("status line %q", line)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return a, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return a, length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, 0, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1
		}
	}
}

// piece reads one chunk of the transfer encoding and returns its length; 0 is
// the last.
func (c *conn) piece() (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("chunk %q", line)
	}
	_, err = c.in.Discard(int(n) + len("\r\n"))
	return int(n), err
}
