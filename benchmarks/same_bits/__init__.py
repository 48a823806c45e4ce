"""Two checkouts of this project, compared bit by bit: do they learn the same?"""
